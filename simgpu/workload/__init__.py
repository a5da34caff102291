"""What is computed: a model as units of ops, without seconds."""
