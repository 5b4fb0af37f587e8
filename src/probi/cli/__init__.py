"""The command line: ``probi``. One thin function per command; the library does the work."""
