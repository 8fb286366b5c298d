"""Why a store did not take the records, in a line that says what to do: wrong address, no answer, another version."""

from __future__ import annotations

import importlib.metadata
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from bgbias.errors import UserError

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https")
MANAGED = ("databricks", "databricks-uc", "uc")
VERSION = re.compile(r"\d+\.\d+\.\d+\w*")
# MLflow calls any other version of its tables out of date.
SCHEMA = re.compile(r"out-of-date database schema \(found version (\w+)")
SECONDS = 5.0
# How MLflow and the databases behind it tell that somebody else has just written the same, or deleted one of two runs of a node.
MET = (
    "RESOURCE_ALREADY_EXISTS",
    "UniqueViolation",
    "UNIQUE constraint",
    "IntegrityError",
    "Duplicate entry",
    "Current state is deleted",
)


class Conflict(UserError):
    """Two machines wrote to one store at the same moment; whoever tries again finds what the other one wrote."""


def check_uri(uri: str) -> None:
    """Refuse what is no address of a store."""
    scheme = urlsplit(uri).scheme.partition("+")[0] or uri
    if scheme not in (*DATABASES, *SERVERS, *MANAGED):
        raise UserError(
            f"'{uri}' is no address of an MLflow store. Give --uri or $MLFLOW_TRACKING_URI as sqlite:///<file>,"
            " http://<server>:<port> or postgresql://<user>@<host>/<database>; unset, it is mlflow.db in the project's folder."
        )
    if scheme == "sqlite" and not uri.startswith("sqlite:///"):
        raise UserError(f"'{uri}' names no file; write sqlite:///<file>, with three slashes.")


def fault(uri: str, error: Exception) -> UserError:
    """What to raise for an error that writing to a store gave."""
    kind = Conflict if any(word in str(error) for word in MET) else UserError
    return kind(
        f"MLflow's store {_shown(uri)} did not take the records: {_reason(uri, error)}. The records are safe;"
        " show them later with: python -m bgbias track"
    )


def _reason(uri: str, error: Exception) -> str:
    said = str(error).strip() or type(error).__name__
    first_line = said.splitlines()[0][:300].rstrip(". ")
    if isinstance(error, ImportError):
        if error.name in ("psycopg2", "pymysql", "MySQLdb", "pymssql", "pyodbc"):
            return f"the database needs the package {error.name}; `make cluster` installs PostgreSQL's"
        return f"MLflow cannot be imported ({said}); `make setup` installs it"
    here, schema = importlib.metadata.distribution("mlflow"), SCHEMA.search(said)
    ours = f"MLflow {here.version}"
    migrations = Path(str(here.locate_file("mlflow/store/db_migrations/versions")))
    if schema and any(migrations.glob(f"{schema[1]}_*.py")):
        return f"it is of an older MLflow than this one ({ours}); back it up, then: mlflow db upgrade {_shown(uri)}"
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
            return (
                "the server wants to know who asks; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            )
        version = ""
    except (OSError, ValueError):
        return "nobody answers there; is the server running, and the address right?"
    if not VERSION.fullmatch(version):
        return "what answers there is no MLflow server"
    return f"the server runs MLflow {version}, this is {ours}"


def _shown(uri: str) -> str:
    """The address without a password."""
    return re.sub(r"(://[^:/@]+):[^@]+@", r"\1:***@", uri)
