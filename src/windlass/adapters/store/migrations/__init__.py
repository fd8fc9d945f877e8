"""The SQLite store's schema, one numbered file per step. A file that was released is never edited: add the next."""
