"""Tables that a script of docs/ makes and pages show, beside those of grids: how, where and by which code they were made.

``docs/results/<kind>.yaml`` says it, as ``made.yaml`` does of a grid: of each table its checksum, commit, date, machine and
minutes, and the code behind all of them. ``--check`` fails when a page, a table or this code is another one now.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from bgbias.engine import records
from bgbias.errors import UserError
from bgbias.files import atomic, code
from bgbias.files.checksums import sha256
from bgbias.files.places import RESULTS
from bgbias.report.parts import Parts
from bgbias.settings import read_yaml

# What only shows tables: pages are checked by themselves.
SHOWING = ("bgbias.report.",)


@dataclass(frozen=True)
class Evidence(Parts):
    """The parts of one ``kind`` whose ``tables`` (CSV files) are made by ``script``, a file or folder of docs/.

    A script that ``completes`` its tables adds rows to those that stand there, which other code may have made.
    """

    tables: tuple[Path, ...]
    script: Path
    completes: bool = False

    @property
    def record(self) -> Path:
        """Where it is kept how the tables were made."""
        return RESULTS / f"{self.kind}.yaml"

    def run(
        self, root: Path, arguments: list[str], make: Callable[[list[str]], Iterable[Path]] | None = None
    ) -> int:
        """What a script does when it is called; the exit status. ``make`` gives the tables that it made.

        ``--check`` says what is not as it was made, ``--accept WHY`` that an edit of code computes the same, ``page`` writes
        the pages alone.
        """
        if arguments == ["--check"]:
            return self.check(root)
        if arguments[:1] == ["--accept"]:
            self.accept(root, " ".join(arguments[1:]))
        elif arguments != ["page"] and make is not None:
            old = {str(t): sha256(root / t) for t in self.tables if self.completes and (root / t).exists()}
            begun = time.perf_counter()
            made = [t for t in make(arguments) if old.get(str(t)) != sha256(root / t)]
            if made or not self.completes:
                self.keep(root, made, (time.perf_counter() - begun) / 60, whole=not old)
        self.write(root)
        return 0

    def check(self, root: Path) -> int:
        """Name pages, tables and code that differ; the exit status of a check."""
        made = self.made_by(root)
        failures = [
            f"{table} is not what {self.command} made"
            for table in self.tables
            if sha256(root / table) != made["tables"].get(str(table), {}).get("sha256")
        ]
        if edited := self.edited(root):
            named = f"{edited[0]}{f' and {len(edited) - 1} more' if len(edited) > 1 else ''}"
            same = f'if it computes the same: python {self.script} --accept "why"'
            failures.append(f"{self.kind} was made by other code than now ({named}); {same}")
        for failure in failures:
            print(f"{failure}; else make it anew: {self.command}")
        return int(bool(failures)) | super().check(root)

    def made_by(self, root: Path) -> dict[str, Any]:
        """What is kept of the tables. Raises UserError if nothing is."""
        if not (root / self.record).exists():
            raise UserError(f"{self.record} is missing; make it anew: {self.command}")
        return read_yaml(root / self.record)

    def code(self, root: Path) -> dict[str, str]:
        """The code behind the tables: each file to the fingerprint of what stands in it."""
        place = root / self.script
        return code.behind([place] if place.is_file() else sorted(place.glob("*.py")), SHOWING)

    def edited(self, root: Path) -> list[str]:
        """The files that are others now than those which made the tables."""
        before, now = self.made_by(root)["code"], self.code(root)
        return sorted(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))

    def accept(self, root: Path, because: str) -> None:
        """Take the code of now for what made the tables, on somebody's word. Raises UserError if it says nothing."""
        if not because.strip():
            raise UserError('Say why the edit computes the same: --accept "a variable was renamed"')
        edited, made = self.edited(root), self.made_by(root)
        if not edited:
            raise UserError(
                f"The code of now is what made the tables of {self.kind}; nothing is to be accepted."
            )
        told = [*made.get("accepted", []), {"edited": edited, "because": because}]
        self._write(root, made | {"accepted": told, "code": self.code(root)})

    def keep(self, root: Path, tables: list[Path], minutes: float, whole: bool = True) -> None:
        """Keep how these tables were made just now; the code too, where it made all of them and they are ``whole`` of it."""
        known = read_yaml(root / self.record) if (root / self.record).exists() else {"tables": {}, "code": {}}
        state = records.checkout()
        birth = {
            "commit": (state["git_commit"] or "unknown") + " with edits" * bool(state["git_dirty"]),
            "date": datetime.now(UTC).date().isoformat(),
            "machine": _machine(),
            "cores": os.cpu_count(),
            "minutes": round(minutes, 1),
        }
        made = known["tables"] | {str(t): {"sha256": sha256(root / t), **birth} for t in tables}
        behind = {"code": self.code(root)} if whole and set(tables) == set(self.tables) else {}
        kept = {k: v for k, v in known.items() if k != "accepted" or not behind}
        self._write(root, kept | {"command": self.command, "tables": made} | behind)

    def _write(self, root: Path, made: dict[str, Any]) -> None:
        order = ("command", "tables", "accepted", "code")
        text = yaml.safe_dump(
            {k: made[k] for k in order if k in made}, sort_keys=False, allow_unicode=True, width=130
        )
        atomic.write_text(root / self.record, text)


def _machine() -> str:
    """The processor, and the GPU if this process worked on one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return records.machine()
    return f"{records.machine()}; {torch.cuda.get_device_name()}"


def kept() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each kind, and what is kept of its tables."""
    for record in sorted(RESULTS.glob("*.yaml")):
        yield record.stem, read_yaml(record)
