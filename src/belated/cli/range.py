"""`belated range`: a range for outcomes in the user's own units, and what it costs."""

import argparse

import numpy as np

from belated.cli.logs import say_how_it_was_read
from belated.cli.output import Output
from belated.errors import InvalidValue
from belated.logs import propose_scale, read_values
from belated.logs.rejections import LEAVE_OUT
from belated.report.ranges import arms_table, choices_table, paste, sentences


def range(options: argparse.Namespace, out: Output) -> int:  # noqa: A001
    """Print ranges to choose from, the recommended one, and the lines to paste."""
    try:
        read = read_values(
            options.source, value=options.value, arm=options.arm, bad_rows=options.bad_rows.replace("-", " ")
        )
    except InvalidValue as error:
        raise InvalidValue(str(error).replace(LEAVE_OUT, "--bad-rows leave-out"), error.field) from None
    say_how_it_was_read(read.columns, (), read.rejections, options.rejected, out)
    values = read.values
    if options.empty is not None:
        values = np.where(np.isnan(values), options.empty, values)
    found = propose_scale(values, read.arms, options.better, quantile=options.quantile)
    out.text(choices_table(found))
    if len(found.order) > 1:
        out.text(arms_table(found))
    out.result(found.as_dict(), sentences(found), paste(found.scale))
    return 0
