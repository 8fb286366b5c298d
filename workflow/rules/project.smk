# Where the package lies, and which Python plans the workflow and runs its jobs.

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

# Whether this workflow was started itself. Else it is a module of another one, whose config, report and defaults are not ours.
MAIN = workflow.modifier.is_main_snakefile()


def project(here):
    """The folder that holds workflow/ and src/, wherever Snakemake was started."""
    if here.is_local:
        return Path(here).parents[1]
    # Of a workflow that is named by github(...), Snakemake keeps a bare clone and reads file by file; Python wants a folder.
    commit = here.hosted_repo.repo.commit(here.ref)
    folder = Path(".snakemake/bgbias").absolute() / commit.hexsha
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile() as file,
            tempfile.TemporaryDirectory(dir=folder.parent) as unpacked,
        ):
            commit.repo.archive(file, commit.hexsha, format="zip")
            file.flush()
            shutil.unpack_archive(file.name, Path(unpacked) / "whole", "zip")
            (Path(unpacked) / "whole").rename(folder)
    return folder


# The package is found without being installed, and `python` is the one that runs Snakemake, activated or not. With
# --use-conda a rule's own environment comes before it, and Snakemake takes PYTHONPATH away from the job, whose shell
# sets it again.
PROJECT = project(workflow.current_basedir)
SOURCE = str(PROJECT / "src")
ENVIRONMENT = str(PROJECT / "workflow/envs/bgbias.yaml")
sys.path.insert(0, SOURCE)
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")])),
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
)
before = shell._process_prefix or "set -euo pipefail; "
searched = f'export PYTHONPATH={shlex.quote(SOURCE)}"${{PYTHONPATH:+:$PYTHONPATH}}"; '
shell.prefix((before + searched).replace("{", "{{").replace("}", "}}"))
