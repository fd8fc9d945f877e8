"""The loops: each fetches facts, calls `core`, waits for the commit, acts. They meet only in the World and the store."""
