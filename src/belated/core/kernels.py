"""How belated compiles: one set of options, one set of signatures, one place.

Every compiled function of the package is made by `kernel`. A learner's functions share the signatures below, so
that one loop, compiled once and cached between processes, can run any of them: it receives their addresses and calls
through `call_decide`, `call_chosen`, `call_learn`, `call_patience` and `call_forget`.

With NUMBA_DISABLE_JIT=1 everything here turns into plain Python: `kernel` returns the function itself, an address is a
place in a list of functions, and the calls are calls.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

# What compiled functions take, for readers and type checkers.
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Integers = NDArray[np.int64]
IntegerMatrix = NDArray[np.int64]
Memory = NDArray[Any]

COMPILED = not numba.config.DISABLE_JIT

STATE = types.float64[::1]
"""A learner's state: as many numbers as it asks for, zeros at first."""
VECTOR = types.float64[::1]
INTEGERS = types.int64[::1]

DECIDE = types.float64(STATE, VECTOR, types.int64, VECTOR)
"""decide(state, params, outstanding, p) -> mark"""
CHOSEN = types.float64(STATE, VECTOR, types.int64, types.float64, types.float64)
"""chosen(state, params, arm, propensity, mark) -> mark"""
LEARN = types.void(STATE, VECTOR, types.int64, types.float64, types.float64, types.float64)
"""learn(state, params, arm, loss, propensity, mark)"""
PATIENCE = types.float64(STATE, VECTOR)
"""patience(state, params) -> rounds to wait"""
FORGET = types.void(STATE, VECTOR, types.float64)
"""forget(state, params, mark)"""

# IEEE arithmetic everywhere, so that a piece inlined into two callers gives the same bits in both. Only the FTRL solver
# asks for more: sums may be taken in vector order. nan and inf keep their meaning even there.
_REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}


_COMPILED = ("audit", "core", "learners", "simulation")
"""The packages that hold compiled code."""
_A_DAY = 24 * 3600.0


@cache
def source_digest(*packages: str) -> str:
    """Return a hash of the sources of some packages of belated, and of the versions of numba and numpy."""
    root = Path(__file__).parent.parent
    digest = hashlib.blake2b(f"{numba.__version__} {np.__version__}".encode(), digest_size=8)
    for package in sorted(packages):
        for source in sorted((root / package).rglob("*.py")):
            digest.update(source.relative_to(root).as_posix().encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def cache_directory() -> Path | None:
    """Return where compiled code is kept: a folder named by a hash of the sources that hold it; None where nothing can
    be written at all.

    numba looks only at the file of the compiled function itself, so an edit in a file that it calls would leave stale
    machine code behind. A new hash is a new folder. An edit elsewhere compiles nothing again.
    """
    package = Path(__file__).parent.parent
    name = f"belated-{source_digest(*_COMPILED)}"
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    beside = package / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # still ~ where there is no home
    for parent in [wanted] if wanted else [os.fspath(beside), *([home] if os.path.isabs(home) else [])]:
        folder = Path(parent) / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                break
        except OSError:
            continue
    else:
        try:
            folder = Path(tempfile.mkdtemp(prefix="belated-")) / name
            folder.mkdir()
        except OSError:
            return None
        atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    for old in beside.glob("belated-*"):  # what earlier sources left behind
        if old != folder and time.time() - old.stat().st_mtime > _A_DAY:
            shutil.rmtree(old, ignore_errors=True)
    return folder


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(*, reassociate: bool = ..., inline: bool = ..., nogil: bool = ...) -> Callable[[F], F]: ...
def kernel(
    function: F | None = None, /, *, reassociate: bool = False, inline: bool = False, nogil: bool = True
) -> F | Callable[[F], F]:
    """Compile a function when it is first needed, cache the machine code on disk, release the GIL while it runs.

    reassociate lets sums be taken in any order; inline puts the function into those that call it. Compiled
    functions work on the arrays they are given and allocate none.
    """

    def compile_later(function: F) -> F:
        if not COMPILED:
            return function
        options: dict[str, Any] = {
            "nogil": nogil,
            "error_model": "numpy",
            "fastmath": _REASSOCIATE if reassociate else False,
            "forceinline": inline,
            "_nrt": False,  # nothing here allocates: no reference counts to keep
        }
        folder = cache_directory()
        if folder is None:
            uncached: F = numba.njit(function, **options)
            return uncached
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)  # read by numba while it decorates
        try:
            jitted: F = numba.njit(function, cache=True, **options)
        except RuntimeError:  # typed at a prompt: no file, so nothing to cache by
            jitted = numba.njit(function, **options)
        finally:
            numba.config.CACHE_DIR = before
        return jitted

    return compile_later(function) if function is not None else compile_later


_uncompiled: list[Any] = [None]


def address(function: Any, signature: Any) -> int:
    """Return the machine address of a kernel compiled for a signature. Never 0."""
    if not COMPILED:
        _uncompiled.append(function)
        return len(_uncompiled) - 1
    result = _compiled(function, signature)
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def entry(function: F, signature: Any) -> F:
    """Return a kernel as Python calls it fastest: past numba's dispatcher, which would look at each argument's type
    first.

    The caller answers for the types: arrays exactly as in the signature, Python numbers elsewhere.
    """
    if not COMPILED:
        quiet: F = np.errstate(over="ignore")(function)  # random numbers wrap around; numpy would warn
        return quiet
    entry_point: F = _compiled(function, signature).entry_point
    return entry_point


def _compiled(function: Any, signature: Any) -> Any:
    function.compile(tuple(signature.args))  # without the return type: the cache takes that for another function
    return function.overloads[tuple(signature.args)]


def _typed_call(signature: Any, given: tuple[Any, ...]) -> Any:
    """Return what an intrinsic answers: the type of call(address, *arguments) and the code for it.

    The arguments stand one by one in the intrinsics below, because that is how numba tells an intrinsic their types.
    """

    def generate(context: Any, builder: Any, outer: Any, values: Any) -> Any:
        target, *passed = values
        convention = context.call_conv
        cast = [context.cast(builder, *each) for each in zip(passed, given, signature.args, strict=True)]
        pointee = convention.get_function_type(signature.return_type, signature.args)
        function = builder.inttoptr(target, pointee.as_pointer())
        status, result = convention.call_function(builder, function, signature.return_type, signature.args, cast)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result if signature.return_type != types.void else context.get_dummy_value()

    return signature.return_type(types.int64, *given), generate


if COMPILED:

    @intrinsic
    def call_decide(typing, address, state, params, outstanding, p):  # type: ignore[no-untyped-def]
        return _typed_call(DECIDE, (state, params, outstanding, p))

    @intrinsic
    def call_chosen(typing, address, state, params, arm, propensity, mark):  # type: ignore[no-untyped-def]
        return _typed_call(CHOSEN, (state, params, arm, propensity, mark))

    @intrinsic
    def call_learn(typing, address, state, params, arm, loss, propensity, mark):  # type: ignore[no-untyped-def]
        return _typed_call(LEARN, (state, params, arm, loss, propensity, mark))

    @intrinsic
    def call_patience(typing, address, state, params):  # type: ignore[no-untyped-def]
        return _typed_call(PATIENCE, (state, params))

    @intrinsic
    def call_forget(typing, address, state, params, mark):  # type: ignore[no-untyped-def]
        return _typed_call(FORGET, (state, params, mark))

else:

    def call_decide(address, *arguments):  # type: ignore[no-untyped-def]
        return _uncompiled[address](*arguments)

    call_chosen = call_learn = call_patience = call_forget = call_decide
