"""Shared by the jobs: the server's address, waiting for a condition, and processes of workers."""

import os
import signal
import subprocess
import sys
import threading
import time

HOST = os.environ["NAGI_HOST"]
PORT = int(os.environ["NAGI_PORT"])

PATIENCE_SECONDS = 120


def url(database=0):
    """The server's address in the form that libraries expect."""
    return f"redis://{HOST}:{PORT}/{database}"


def until(what, condition):
    """Repeats `condition` until it returns something true, and returns that."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain for {what}")
        threading.Event().wait(0.01)


def raises(kind, text, action):
    """Expects an error of this kind that contains `text`."""
    try:
        action()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__} came")


def finish(summary):
    """Ends the job after its last line: at the interpreter's regular end, libraries print more."""
    print(summary, flush=True)
    os._exit(0)


class Process:
    """A Python program with arguments, in a process group that ends with the job."""

    def __init__(self, *arguments, **environment):
        environment = {**os.environ, **{name: str(value) for name, value in environment.items()}}
        self.child = subprocess.Popen([sys.executable, *arguments], env=environment)

    def kill(self):
        """Kills the process, as a crash or a lack of memory would."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self, number=signal.SIGTERM):
        """Asks it to end, and returns its exit code."""
        self.child.send_signal(number)
        return self.child.wait(PATIENCE_SECONDS)
