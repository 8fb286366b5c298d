"""Why a store did not take the records, in a line that says what to do: wrong address, no answer, no login."""

import re
from urllib.parse import urlsplit

from bgbias.errors import UserError

SERVERS = ("http", "https")
SCHEMES = ("sqlite", "postgresql", "mysql", "mssql", *SERVERS, "databricks", "databricks-uc", "uc")
# What MLflow says of a server, and what is behind it.
SERVER_FAULTS = {
    "error code 40[13]|UNAUTHENTICATED": (
        "the server asks for a login; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    ),
    "error code 404|valid JSON format": "what answers there is no MLflow server, or one of another version",
    "failed with (timeout )?exception(?!.*ResponseError)": "nobody answers there; is the server running, and the address right?",
}
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
    if isinstance(error, ImportError):
        return f"MLflow cannot be imported ({error}); `make setup` installs it, `make cluster` PostgreSQL's driver"
    text = f"{type(error).__name__}: {error}"
    first_line = text.splitlines()[0][:300].rstrip(". ")
    fault = next((fault for pattern, fault in SERVER_FAULTS.items() if re.search(pattern, text)), None)
    return f"{fault} ({first_line})" if fault and urlsplit(uri).scheme in SERVERS else first_line
