raise ImportError("broken")
