"""A figure of Matplotlib that a notebook shows without pyplot: the inline backend would show it twice or not at all."""

from io import BytesIO

from matplotlib.figure import Figure


class Shown(Figure):
    """A figure that says what it looks like."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png")
        return drawn.getvalue()
