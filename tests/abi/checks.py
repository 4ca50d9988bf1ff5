"""How the checks of this folder are run and counted."""

import subprocess
from collections.abc import Callable, Iterable

ERRORS = (AssertionError, AttributeError, subprocess.CalledProcessError)


def run(*command, **options):
    """What a command prints; fails when it fails."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def run_all(checks: Iterable[Callable[..., None]], *arguments: object) -> bool:
    """Calls each check, prints "N passed, N failed", and returns whether one failed."""
    passed = failed = 0
    for check in checks:
        try:
            check(*arguments)
            passed += 1
        except ERRORS as error:
            failed += 1
            print(f"FAILED {check.__name__}: {getattr(error, 'stderr', None) or error}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0
