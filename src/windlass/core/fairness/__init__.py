"""2 · Who is next? A ledger of what each tenant was given, and a queue that serves whoever was given least for its weight."""
