"""``python -m simgpu``."""

from simgpu.cli.main import main

if __name__ == "__main__":
    main()
