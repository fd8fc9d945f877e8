"""The way in for people and programs: a small synchronous client of `/api/v1`.

Only the standard library and msgspec are imported here, because `windlass get jobs` pays for every import at each start.
What terminals need (websockets) is imported when a terminal is opened.
"""
