"""``aiopslab grade RECORD...``: judge stored records again. Nothing in a record is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from aiopslab.cli.flags import Json
from aiopslab.cli.output import print_json
from aiopslab.cli.summary import exit_code, summary
from aiopslab.grading import grade as judge
from aiopslab.record import read_record


def grade(
    record: Annotated[list[Path], Parameter(required=True, negative="")], /, *, json: Json = False
) -> int:
    """Judge stored records again, with the graders of this version.

    Parameters
    ----------
    record
        Record folders, as printed by ``aiopslab run``.
    """
    results = [(folder, judge(folder)) for folder in record]
    summaries = [summary(read_record(folder), result, folder) for folder, result in results]
    if json:
        print_json(summaries[0] if len(summaries) == 1 else {"records": summaries})
    else:
        from aiopslab.cli.report import print_report

        for folder, result in results:
            print_report(read_record(folder), result, folder)
    return max(exit_code(result.verdict) for _, result in results)
