"""Every chart as HTML."""

from __future__ import annotations

from dataclasses import replace

from .charts import Chart, Explained, ParticleChart, SliderChart, SmallMultiples
from .explained import explained
from .particles import particles
from .plots import framed, headed, legend, plotted
from .slider import slider


def chart_to_html(chart: Chart) -> str:
    """A chart with its title, for a page."""
    match chart:
        case Explained():
            return explained(chart, chart_to_html(chart.chart))
        case SmallMultiples():
            return multiples(chart)
        case SliderChart():
            return slider(chart)
        case ParticleChart():
            return particles(chart)
        case _:
            return framed(plotted(chart))


def multiples(chart: SmallMultiples) -> str:
    plots, common = [plotted(one) for one in chart.charts], ()
    if len({tuple(plot.legend) for plot in plots}) == 1:
        common, plots = plots[0].legend, [replace(plot, legend=()) for plot in plots]
    small = "".join(framed(plot, "h3") for plot in plots)
    return f'{headed(chart.title, "h2")}{legend(common)}<div class="multiples">{small}</div>'
