"""Make ``.venv`` with everything a sweep on this machine needs; costs nothing when it is there.

    python3 -m tools.setup [--extra cpu|gpu]

Needs only the system's Python. What was installed, and why something was left out, is written to
``.venv/sweeper-setup.json``; pip's own words are in ``.venv/sweeper-setup.log``.
"""

# Up to the version check this must compile on any Python 3: no __future__ import, no walrus.
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the Python that runs this may be older
    sys.exit(
        "setup: this is Python {}.{}, 3.11 or newer is needed, as in "
        "`make PYTHON=python3.12 setup`".format(*sys.version_info)
    )

import argparse
import importlib.util
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.environment import Environment, Record, SetupError, step
from tools.needs import (
    DISK_GB,
    FRAGILE,
    OLDEST_PIP,
    SUFFIX_BUILD,
    disk_problem,
    explain,
    find_compiler,
    install_arguments,
    last_line,
    missing_torch,
    pip_is_old,
    stamp_of,
    suffix_obstacle,
    suffix_requirement,
)

ROOT = Path(__file__).resolve().parent.parent


def make_environment(env: Environment, *, extra: str) -> None:
    """A half-filled ``.venv`` is kept; a broken one, or one with the other vLLM, is made anew."""
    record = env.record()
    if env.usable() and (record is None or record.extra == extra):
        return
    with step(f"making .venv{' anew' if env.folder.exists() else ''} with {sys.executable}"):
        command = [sys.executable, "-m", "venv", "--clear", str(env.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(f"{done.stdout.strip()}{done.stderr.strip()}\n  no .venv was made")


def update_pip(env: Environment) -> None:
    if pip_is_old(env.run("-m", "pip", "--version")[1]):
        with step("updating pip"):
            env.pip("install", "--upgrade", "pip>={}.{}".format(*OLDEST_PIP))


def install_packages(env: Environment, extra: str) -> None:
    """First from the indexes pip is set up with: a mirror may have the CPU build of torch too."""
    with step(
        f"installing vLLM for the {extra.upper()} and the rest (some 2 GB to fetch; minutes)"
    ):
        status, output = env.try_pip(*install_arguments(extra, torch_index=False))
        torch = missing_torch(output)
        if status and torch is None:
            raise SetupError(explain(output))
    if status:
        with step(f"once more: {torch} comes from PyTorch's own index"):
            env.pip(*install_arguments(extra, torch_index=True))


def drop_unloadable(env: Environment) -> dict[str, str]:
    """Remove those of ``FRAGILE`` that fail beside this torch: vLLM would fail on them too."""
    left_out = {}
    with step("checking that torch loads"):
        status, output = env.run("-I", "-c", "import torch")
        if status:
            raise SetupError(f"torch does not load: {last_line(output)}")
        for name in FRAGILE:
            status, output = env.run("-I", "-c", f"import torch, {name}")
            if status:
                left_out[name] = f"removed, as it does not load: {last_line(output)}"
                env.try_pip("uninstall", "--yes", name)
    return left_out


def install_suffix(env: Environment) -> str | None:
    """Compile arctic-inference, which suffix decoding needs; the reason if that was not done."""
    if has_suffix(env):
        return None
    header = Path(sysconfig.get_path("include")) / "Python.h"
    obstacle = suffix_obstacle(compiler=find_compiler(os.environ), header=header)
    if obstacle:
        return f"skipped: {obstacle}"
    try:
        with step("compiling arctic-inference, for suffix decoding"):
            compile_suffix(env)
    except SetupError:
        return "skipped: arctic-inference did not compile; why is in .venv/sweeper-setup.log"
    return None


def has_suffix(env: Environment) -> bool:
    """The wanted version is installed, and its compiled part loads."""
    code = "import arctic_inference.suffix_decoding._C, importlib.metadata as m"
    status, output = env.run("-I", "-c", f"{code}; print(m.version('arctic-inference'))")
    return status == 0 and suffix_requirement(env.root).endswith(f"=={last_line(output)}")


def compile_suffix(env: Environment) -> None:
    """Against the torch of ``env``, with build tools that lie beside it only meanwhile."""
    with tempfile.TemporaryDirectory(prefix="sweeper-build-") as tools:
        env.pip("install", "--target", tools, *SUFFIX_BUILD)
        path = os.pathsep.join((f"{tools}/bin", os.environ.get("PATH", os.defpath)))
        wanted = ("--no-deps", "--no-build-isolation", suffix_requirement(env.root))
        env.pip("install", *wanted, PYTHONPATH=tools, PATH=path)


def build_demo(env: Environment) -> bool:
    """The demo's checkpoints, which lie outside ``.venv``; false if there was nothing to build."""
    module = next((m for m in ("build", "target") if (env.root / f"demo/{m}.py").is_file()), None)
    if module is None or demo_is_built(module):
        return False
    with step("building the demo's models"):
        status, output = env.run("-m", f"demo.{module}")
        if status:
            raise SetupError(f"the demo's models were not built: {last_line(output)}")
    return True


def demo_is_built(module: str) -> bool:
    from demo.cache import DRAFT, HEAD, TARGET, checkpoint

    names = (TARGET, DRAFT, HEAD) if module == "build" else (TARGET,)
    return all(checkpoint(name) for name in names)


def fill(env: Environment, extra: str) -> dict[str, str]:
    """From whatever is there to a complete ``.venv``; what was left out, and why."""
    free = shutil.disk_usage(env.root).free
    problem = disk_problem(env.root, free)
    if problem and env.lacks():
        raise SetupError(problem)
    room = f"about {DISK_GB} GB of disk, {free / 1e9:.0f} GB are free"
    print(f"setup: making {env.folder} ({room})", file=sys.stderr)
    if extra == "gpu":
        print("  note: the set-up for GPUs has not been tried on one yet", file=sys.stderr)
    make_environment(env, extra=extra)
    env.record_file.unlink(missing_ok=True)
    update_pip(env)
    install_packages(env, extra)
    left_out = drop_unloadable(env)
    reason = install_suffix(env)
    return {**left_out, "suffix": reason} if reason else left_out


def set_up(env: Environment, extra: str) -> None:
    compiler = "compiler" if find_compiler(os.environ) else "no compiler"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    stamp = stamp_of(env.root, (version, extra, compiler))
    record = env.record()
    complete = record is not None and record.stamp == stamp and not env.lacks()
    if not complete:
        left_out = fill(env, extra)
        env.write(Record(stamp=stamp, extra=extra, left_out=left_out))
        for name, reason in left_out.items():
            print(f"  {name}: {reason}", file=sys.stderr)
    if not build_demo(env) and complete:
        print("setup: complete, nothing to do", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m tools.setup",
        description=str(__doc__).split("\n")[0],
    )
    default = "gpu" if shutil.which("nvidia-smi") else "cpu"
    parser.add_argument("--extra", choices=("cpu", "gpu"), default=default, help="which vLLM")
    extra = parser.parse_args(arguments).extra
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        print("setup: this Python has no venv: apt install python3-venv", file=sys.stderr)
        return 1
    try:
        set_up(Environment(ROOT), extra)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; `make setup` goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
