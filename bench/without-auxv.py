#!/usr/bin/env python3
"""Runs a program that, as on kernels before 6.4, is not told its auxiliary vector by prctl.

Valgrind unmaps the kernel's code for clocks, and hides from the program's auxiliary vector in /proc
that it was there; prctl(PR_GET_AUXV) still tells the address, which rustix then reads in vain.
Usage: bench/without-auxv.py valgrind --tool=callgrind PROGRAM...
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PR_GET_AUXV = 0x41555856
EINVAL = 22
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data: the call's number, and the lower half of its first argument.
NUMBER, FIRST_ARGUMENT = 0, 16
# Of struct sock_filter: load a word; jump if equal; return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
PRCTL = {"x86_64": 157, "aarch64": 167}


def refuse_auxv():
    number = PRCTL[platform.machine()]
    rules = [
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 3, number),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_EQUAL, 0, 1, PR_GET_AUXV),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | EINVAL),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in [
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0),
    ]:
        if libc.prctl(*call) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")


refuse_auxv()
os.execvp(sys.argv[1], sys.argv[1:])
