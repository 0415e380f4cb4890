"""Drop-in modules: a program written for an upstream package changes one import."""
