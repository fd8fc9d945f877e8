"""The nouns, as frozen Structs of integers and strings. `GLOSSARY.md` says what each word means."""
