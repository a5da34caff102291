"""Files: read as plain mappings, written whole or not at all."""
