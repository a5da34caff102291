"""Hardware: GPUs, links, machines and the fabric between them, as one typed view on a graph."""
