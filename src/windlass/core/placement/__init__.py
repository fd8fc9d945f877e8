"""3 · Where? Nodes with their free room; filters that count what they refuse; the pick."""
