"""Launch files for other programs: what ``simgpu.io.foreign`` reads, written."""
