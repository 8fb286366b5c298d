"""Why a store did not take the records, in a line that says what to do: wrong address, no answer, another version."""

import importlib.metadata
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from bgbias.errors import UserError

SERVERS = ("http", "https")
SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", *SERVERS, "databricks", "databricks-uc", "uc")
VERSION = re.compile(r"\d+\.\d+\.\d+\w*")
# MLflow calls any other version of its tables out of date.
SCHEMA = re.compile(r"out-of-date database schema \(found version (\w+)")
SECONDS = 5.0
# How MLflow and the databases behind it tell that somebody else has just written the same, or deleted one of two runs of a step.
CONFLICT = re.compile(
    "RESOURCE_ALREADY_EXISTS|UniqueViolation|UNIQUE constraint|IntegrityError|Duplicate entry"
    "|Current state is deleted"
)


class Conflict(UserError):
    """Two machines wrote to one store at the same moment; whoever tries again finds what the other one wrote."""


def check_uri(uri: str) -> None:
    """Refuse what is no address of a store."""
    scheme = urlsplit(uri).scheme.partition("+")[0] or uri
    if scheme not in SCHEMES or (scheme == "sqlite" and not uri.startswith("sqlite:///")):
        raise UserError(
            f"'{uri}' is no address of an MLflow store. Give --uri or $MLFLOW_TRACKING_URI as sqlite:///<file> (three slashes),"
            " http://<server>:<port> or postgresql://<user>@<host>/<database>; unset, it is mlflow.db in the project's folder."
        )


def fault(uri: str, error: Exception) -> UserError:
    """What to raise for an error that writing to a store gave."""
    kind = Conflict if CONFLICT.search(str(error)) else UserError
    message = (
        f"MLflow's store {uri} did not take the records: {_reason(uri, error)}. The records are safe;"
        " show them later with: python -m bgbias track"
    )
    # Addresses without their passwords.
    return kind(re.sub(r"(://[^:/@\s]+):[^@\s]+@", r"\1:***@", message))


def _reason(uri: str, error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    first_line = text.splitlines()[0][:300].rstrip(". ")
    if isinstance(error, ImportError):
        return f"MLflow cannot be imported ({error}); `make setup` installs it, `make cluster` PostgreSQL's driver"
    mlflow, schema = importlib.metadata.distribution("mlflow"), SCHEMA.search(text)
    ours = f"MLflow {mlflow.version}"
    migrations = Path(str(mlflow.locate_file("mlflow/store/db_migrations/versions")))
    if schema and any(migrations.glob(f"{schema[1]}_*.py")):
        return f"it is of an older MLflow than this one ({ours}); back it up, then: mlflow db upgrade {uri}"
    if schema:
        return f"it is of a newer MLflow than this one ({ours}); use that one, or another store with --uri"
    if urlsplit(uri).scheme in SERVERS:
        return f"{_server(uri, ours)} ({first_line})"
    return first_line


def _server(uri: str, ours: str) -> str:
    """What answers at an address."""
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/version", timeout=SECONDS) as answer:
            version = answer.read(100).decode("utf-8", "replace").strip()
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return "the server asks for a login; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        version = ""
    except (OSError, ValueError):
        return "nobody answers there; is the server running, and the address right?"
    if not VERSION.fullmatch(version):
        return "what answers there is no MLflow server"
    return f"the server runs MLflow {version}, this is {ours}"
