"""Do the numbers stay? Makes the grids `smoke` and `demo` and one audit, and compares what they made by SHA-256.

    python tests/oracle.py write FILE      # at the commit before a change, on this machine
    python tests/oracle.py check FILE      # after it: names every file that differs, and exits with 1

Last bits depend on the machine and on the number of threads: FILE is of one machine and one OMP_NUM_THREADS (or of none), and
no test reads it. ``--folder DIR`` keeps what is made there and
resumes it; ``--only smoke audit`` leaves the demo out (five minutes on two cores).
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/support"), str(ROOT)]

import commands  # noqa: E402
import project  # noqa: E402
import toy_folder  # noqa: E402

PARTS = ("smoke", "demo", "audit")
# Below data/: weights, embeddings, attribution scores and maps, values a query, tables.
NUMBERS = (
    "runs/{grid}/models/**/model.safetensors",
    "runs/{grid}/models/**/history.csv",
    "runs/{grid}/scores/**/embeddings.npz",
    "runs/{grid}/scores/**/attribution.npz",
    "runs/{grid}/scores/**/queries.parquet",
    "runs/{grid}/scores/**/*.csv",
    "report/{grid}/*.csv",
    "report/{grid}/*.parquet",
)


def main() -> int:
    """The command; 0 if nothing differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["write", "check"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        made = digests(chosen.folder or Path(temporary) / "project", chosen.only)
    if chosen.action == "write":
        chosen.file.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(made)} files in {chosen.file}")
        return 0
    expected = json.loads(chosen.file.read_text(encoding="utf-8"))
    names = sorted(made.keys() | {name for name in expected if name.partition("/")[0] in chosen.only})
    different = [name for name in names if made.get(name) != expected.get(name)]
    for name in different:
        print(name, "is missing" if name not in made else "differs" if name in expected else "is new")
    print(f"{len(different)} of {len(names)} files differ")
    return int(bool(different))


def digests(folder: Path, parts: tuple[str, ...]) -> dict[str, str]:
    """What was made, as ``grid/file`` or ``audit/audit.json``, to its SHA-256."""
    studied = project.Project(folder) if folder.exists() else project.fresh(folder)
    made: dict[str, str] = {}
    data = folder / "data"
    for grid in (part for part in parts if part != "audit"):
        studied.snakemake("--config", f"grid={grid}", "--quiet", "all")
        for path in (path for pattern in NUMBERS for path in data.glob(pattern.format(grid=grid))):
            made[f"{grid}/{path.relative_to(data)}"] = digest(path)
    if "audit" in parts:
        made["audit/audit.json"] = digest(audit(folder / "audited"))
    return made


def audit(folder: Path) -> Path:
    """An audit of toys with drawn masks, other backgrounds and a small network; its numbers."""
    if not folder.exists():
        toy_folder.made(folder)
    words = ["audit", "photos", "--model", "my_model.py:build", "--masks", "masks"]
    words += ["--backgrounds", "walls", "--attribution", "10", "--out", "out"]
    done = commands.bgbias(folder, *words, BGBIAS_CACHE=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    return folder / "out/audit.json"


def digest(path: Path) -> str:
    """The SHA-256 of a file; of weights without the digest of the code that made them."""
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        begin = 8 + int.from_bytes(data[:8], "little")
        tensors = json.loads(data[8:begin])
        tensors.pop("__metadata__", None)
        data = json.dumps(tensors, sort_keys=True).encode() + data[begin:]
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
