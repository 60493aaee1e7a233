"""How kernels become machine code: compilation, the cache on disk, dispatch on the type of an argument."""
