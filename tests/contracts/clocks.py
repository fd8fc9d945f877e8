"""A monotonic clock that stands still until a test moves it."""


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds

    async def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
