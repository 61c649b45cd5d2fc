"""A sweep in MLflow: one parent run, one nested run a point, the same runs however often told."""

from __future__ import annotations

import fcntl
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sweeper.errors import PublishError
from sweeper.judge.judgement import Judgement
from sweeper.report import mlview
from sweeper.report.runs import FOLDER, NOT_MEASURED, PASSING_TAGS, Run, child, parent
from sweeper.report.stepped import SURVIVAL
from sweeper.report.unbroken import Unbroken, unbroken
from sweeper.store import SweepFolder, read_sweep

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
IDENTITY = "sweeper.identity"
CONTENT = "sweeper.content"
SWEEP = "sweeper.sweep"
PARENT = "mlflow.parentRunId"
_SQLITE = "sqlite:///"


def default_tracking_uri(outputs: Path) -> str:
    """The database in the folder that holds the sweeps."""
    return f"{_SQLITE}{outputs.resolve() / DATABASE}"


def publish(
    folder: SweepFolder,
    judgement: Judgement,
    tracking_uri: str | None,
    experiment: str,
) -> str:
    """Write the sweep to MLflow and return the id of its run.

    Without a ``tracking_uri`` it goes to ``mlflow.db`` two folders up (``outputs/``). Runs are
    found again by a tag, so a second call changes nothing and a later one adds what is new. Any
    failure is a :class:`PublishError`; the files of the sweep are not touched.
    """
    uri = tracking_uri or default_tracking_uri(folder.path.resolve().parent.parent)
    sweep = read_sweep(folder)
    try:
        with _quiet(), _alone(uri):
            files = _artifacts(uri, folder.path.resolve().parent.parent)
            publication = _Publication(uri, experiment, sweep.id, files)
            with publication.none_left_open():
                top = publication.put(parent(folder, sweep, judgement), None)
                made: dict[int | None, str] = {}
                with publication.killing(top):
                    # Baselines first: the others name their runs.
                    for one in sorted(judgement.comparisons, key=lambda c: c.baseline is not None):
                        base = made.get(one.baseline, "")
                        run = child(folder, sweep, one, judgement, base)
                        made[one.number] = publication.put(run, top)
            return top
    except PublishError:
        raise
    except Exception as problem:  # whatever MLflow, its database or its server raise
        line = " ".join(str(problem).split())[:500]
        raise PublishError(f"MLflow at {without_password(uri)}: {line}") from problem


def found_again(tracking_uri: str, run_id: str) -> tuple[Path, str]:
    """The folder of the sweep that a run tells of, and the key of its point (empty: all points).

    :raises PublishError: when the run is not there, or the folder is not on this machine.
    """
    with _quiet():
        from mlflow import MlflowClient

        try:
            tags = MlflowClient(tracking_uri=tracking_uri).get_run(run_id).data.tags
        except Exception as problem:  # whatever MLflow, its database or its server raise
            line = " ".join(str(problem).split())[:500]
            raise PublishError(f"MLflow at {without_password(tracking_uri)}: {line}") from problem
    folder = Path(tags.get(FOLDER, ""))
    if not tags.get(FOLDER) or not (folder / "sweep.json").is_file():
        where = tags.get(FOLDER) or "not recorded"
        raise PublishError(f"run {run_id}: the folder of its sweep is not here: {where}")
    return folder, tags.get("point_key", "")


def reach(uri: str) -> str:
    """What answers there, one sentence; a database that is not there yet is not made.

    :raises PublishError: when nothing does.
    """
    database, shown = database_of(uri), without_password(uri)
    if database is not None and not database.exists():
        return f"{database} will be made by the first sweep"
    quick = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
    try:
        with _quiet(quick):
            from mlflow import MlflowClient

            client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
            many = len(client.search_experiments(max_results=1000))
            server = _server_version(uri)
    except Exception as problem:  # whatever MLflow, its database or its server raise
        line = " ".join(str(problem).split())[:300]
        raise PublishError(f"MLflow at {shown} does not answer: {line}") from problem
    return f"{shown}{server} answers, {many} experiment{'' if many == 1 else 's'}"


def _server_version(uri: str) -> str:
    """`` (server 3.1.0)`` for an address of a server that says so."""
    if not uri.startswith(("http://", "https://")):
        return ""
    from mlflow.utils import rest_utils

    rest: Any = rest_utils
    with suppress(Exception):
        answer = rest.http_request(rest.MlflowHostCreds(uri), "/version", "GET")
        return f" (server {answer.text.strip()})"
    return ""


class _Publication:
    """One client, one experiment, and the runs this sweep already has there."""

    def __init__(self, uri: str, experiment: str, sweep: str, files: str | None) -> None:
        from mlflow import MlflowClient  # takes seconds to import

        if _is_server(uri):  # has its own transactions, and may be silent for long
            self.client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
        else:
            with unbroken():  # may make the tables
                self.client = Unbroken(MlflowClient(tracking_uri=uri, registry_uri=uri))
        self.experiment = _experiment(self.client, uri, experiment, files)
        self.sweep = sweep
        self.known = self._known()

    def _known(self) -> dict[str, Any]:
        """Runs of this sweep by identity; the oldest where there are two."""
        runs: dict[str, Any] = {}
        token: str | None = None
        sweep = _hex(self.sweep)
        while True:
            page = self.client.search_runs(
                [self.experiment],
                filter_string=f"tags.`{SWEEP}` = '{sweep}'",
                max_results=1000,
                order_by=["attributes.start_time DESC"],
                page_token=token,
            )
            runs |= {run.data.tags[IDENTITY]: run for run in page if IDENTITY in run.data.tags}
            token = page.token
            if not token:
                return runs

    def put(self, run: Run, above: str | None) -> str:
        """Create or complete one run and end it; interrupted, it ends as KILLED."""
        known = self.known.get(run.identity)
        if known is not None and self._same(known, run, above):
            return str(known.info.run_id)
        if known is not None and self._has_more(known, run):
            self.client.delete_run(known.info.run_id)
            known = None
        run_id = str(known.info.run_id) if known else self._create(run)
        with self.killing(run_id):
            if above is not None:
                self.client.set_tag(run_id, PARENT, above)
            self._log(run_id, run, known)
            self.client.set_terminated(run_id, status=run.status, end_time=run.end_ms)
        return run_id

    @contextmanager
    def killing(self, run_id: str) -> Iterator[None]:
        """No run is left RUNNING, or called FINISHED, when its publication breaks off."""
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.client.set_terminated(run_id, status="KILLED")
            raise

    @contextmanager
    def none_left_open(self) -> Iterator[None]:
        """Also not the run that MLflow had just created, and had not yet told us of."""
        try:
            yield
        except BaseException:
            mine = f"tags.`{SWEEP}` = '{_hex(self.sweep)}' and attributes.status = 'RUNNING'"
            with suppress(Exception):
                for run in self.client.search_runs([self.experiment], filter_string=mine):
                    self.client.set_terminated(run.info.run_id, status="KILLED")
            raise

    def _same(self, known: Any, run: Run, above: str | None) -> bool:
        tags = known.data.tags
        published = tags.get(CONTENT) == run.content and tags.get(PARENT) == above
        return bool(published and known.info.status == run.status)

    def _has_more(self, known: Any, run: Run) -> bool:
        """MLflow cannot take a metric back or change a parameter; then the run is replaced."""
        run_id, old = known.info.run_id, known.data
        lost = old.metrics.keys() - run.metrics.keys() - run.stepped.keys()
        changed = any(run.params.get(k, v) != v for k, v in old.params.items())
        return (
            bool(lost)
            or changed
            or any(
                len(self.client.get_metric_history(run_id, name)) > len(steps)
                for name, steps in run.stepped.items()
                if name in old.metrics
            )
        )

    def _create(self, run: Run) -> str:
        tags = {IDENTITY: run.identity, SWEEP: _hex(self.sweep)}
        made = self.client.create_run(
            self.experiment, start_time=run.start_ms, tags=tags, run_name=run.name
        )
        return str(made.info.run_id)

    def _log(self, run_id: str, run: Run, known: Any) -> None:
        """Figures first, files next, and last the mark that all of it is there."""
        from mlflow.entities import Metric, Param, RunTag

        old = known.data if known else None
        metrics = [
            Metric(name, value, run.end_ms, 0)
            for name, value in run.metrics.items()
            if old is None or old.metrics.get(name) != value
        ]
        for name, steps in run.stepped.items():
            # By position all at once, by second of the point at its time.
            began = None if name == SURVIVAL else run.start_ms
            metrics += [
                Metric(name, v, run.end_ms if began is None else began + 1000 * i, i)
                for i, v in steps
            ]
        params = [Param(k, v) for k, v in run.params.items() if not old or k not in old.params]
        tags = [RunTag(k, v) for k, v in run.tags.items()]
        for stale in _stale(old.tags if old else {}, run):
            self.client.delete_tag(run_id, stale)
        for part in _parts(tags, 100):
            self.client.log_batch(run_id, tags=part)
        self.client.log_batch(run_id, params=params)
        for part in _parts(metrics, 1000):
            self.client.log_batch(run_id, metrics=part)
        for path in run.files:
            self.client.log_artifact(run_id, str(path))
        self.client.log_batch(run_id, tags=[RunTag(CONTENT, run.content)])


def _stale(old: dict[str, str], run: Run) -> Iterator[str]:
    """Tags of ours that no longer hold; those a user added stay."""
    ours = (name for name in old if name in PASSING_TAGS or name.startswith(NOT_MEASURED))
    return (name for name in ours if name not in run.tags)


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _experiment(client: Any, uri: str, name: str, files: str | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        # The kind opens the table of runs, not the pages for traces of chats.
        tags = {"mlflow.experimentKind": "custom_model_development", mlview.TAG: mlview.state()}
        return str(client.create_experiment(name, artifact_location=files, tags=tags))
    if found.lifecycle_stage != "active":
        raise PublishError(
            f"MLflow at {without_password(uri)}: experiment {name!r} was deleted; "
            "restore it or choose another name"
        )
    if found.tags.get(mlview.TAG) != mlview.state():
        client.set_experiment_tag(found.experiment_id, mlview.TAG, mlview.state())
    return str(found.experiment_id)


def views(uri: str, address: str) -> dict[str, str]:
    """Where the experiments that sweeps were published to can be looked at, by name; the one that
    was written to last comes first.

    :raises PublishError: when the database cannot be read.
    """
    with _quiet():
        from mlflow import MlflowClient

        try:
            client: Any = MlflowClient(tracking_uri=uri, registry_uri=uri)
            found = client.search_experiments(order_by=["last_update_time DESC"])
        except Exception as problem:  # whatever MLflow or its database raise
            line = " ".join(str(problem).split())[:500]
            raise PublishError(f"MLflow at {without_password(uri)}: {line}") from problem
    ours = (e for e in found if mlview.TAG in e.tags)
    return {e.name: mlview.page(address, e.experiment_id) for e in ours}


def database_of(uri: str) -> Path | None:
    """The file of an sqlite address, ``None`` for a server."""
    return Path(uri.removeprefix(_SQLITE)).resolve() if uri.startswith(_SQLITE) else None


def _artifacts(uri: str, outputs: Path) -> str | None:
    """Beside the database file; of a database server in ``outputs``, as it keeps no files; a
    tracking server has its own place."""
    if _is_server(uri):
        return None
    database = database_of(uri)
    return ((database.parent if database else outputs) / ARTIFACTS).as_uri()


def _is_server(uri: str) -> bool:
    """Whether a tracking server is there, and not a database that this process writes to."""
    return uri.startswith(("http://", "https://", "databricks"))


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """One writer at a time for a database file: two that create its tables at once break it."""
    database = database_of(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with (database.parent / f".{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _quiet(more: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """No banners, links, migration logs or usage reports; the environment is put back after."""
    wanted = {
        **more,
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_CONFIGURE_LOGGING": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        # A server that is away costs seconds, not minutes; unless the user chose otherwise.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2"),
        "MLFLOW_HTTP_REQUEST_TIMEOUT": os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", "30"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    level = logging.root.manager.disable
    os.environ.update(wanted)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow and SQLAlchemy about each other
            yield
    finally:
        logging.disable(level)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _hex(text: str) -> str:
    """Safe inside a search filter, whatever the text."""
    from sweeper.values import content_key

    return content_key(text)


def without_password(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if "@" in rest else uri
