"""The command cspeed of the wheel: starts the program in this package, which contains no other Python."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.realpath(__file__)), "bin", "cspeed")
    os.execv(program, ["cspeed", *sys.argv[1:]])
