"""The largest coordinate of the state at the start of each layer."""

from splitstep.integrate import Event
from splitstep.probes import Figures, Pass, Probe


class Largest(Probe):
    """max |x| over tokens and coordinates, layer by layer."""

    def __init__(self) -> None:
        self.sizes: list[float] = []

    def __call__(self, event: Event) -> None:
        if event.site.part == 0:
            self.sizes.append(float(event.x.abs().max()))

    def figures(self, passed: Pass) -> Figures:
        return {"x": tuple(self.sizes)}
