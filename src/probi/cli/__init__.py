"""The command line: ``probi``. One thin function a command; work is done by the library."""
