"""From documents to lines of text. Pure: the time and the width are arguments, so every line can be a golden test."""
