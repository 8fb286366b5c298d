"""``snakemake --logger bgbias``: one screen instead of lines for each job. Snakemake finds it by this package's name."""

from __future__ import annotations

from functools import cached_property
from logging import WARNING, LogRecord
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

if TYPE_CHECKING:
    from bgbias.engine.progress_screen import Screen

NOTHING = "Nothing to be done"


class LogHandler(LogHandlerBase):
    """What Snakemake tells, as the screen wants it; Snakemake itself writes all of it to its log file."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True  # --quiet would take away what the screen is made of
    has_formatter = False
    needs_rulegraph = False

    @cached_property
    def screen(self) -> Screen:
        """Begun when it is needed, by the bgbias of the Snakefile's own checkout. Snakemake imports this
        file before, whatever it runs.
        """
        from bgbias.engine.progress_screen import Screen

        return Screen()

    def emit(self, record: LogRecord) -> None:
        """One of Snakemake's events; what went wrong is shown in Snakemake's words."""
        told = vars(record)
        event = told.get("event")
        if self.common_settings.dryrun:
            self.screen.say(self.format(record))
        elif event == LogEvent.RUN_INFO:
            self.screen.begins(told["stats"])
        elif event == LogEvent.JOB_INFO:
            self.screen.started(told["jobid"], told["rule_name"], told["wildcards"], told["log"])
        elif event == LogEvent.JOB_FINISHED:
            self.screen.finished(told["job_id"])
        elif event == LogEvent.JOB_ERROR:
            self.screen.failed(told["jobid"])
            self.screen.say(self.format(record))
        elif record.levelno >= WARNING or str(record.msg).startswith(NOTHING):
            self.screen.say(self.format(record))

    def close(self) -> None:
        """The end, in a line."""
        if "screen" in vars(self):
            self.screen.ends()
        super().close()
