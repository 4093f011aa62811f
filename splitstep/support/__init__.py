"""Small helpers that know nothing of schemes: files, typed values, registries, wording, imports."""
