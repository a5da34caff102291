"""The command line. Everything heavy is imported inside the commands, so that ``--help`` is quick."""
