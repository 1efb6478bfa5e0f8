"""MongoDB's expressions: parsed once into functions of a document and of variables. Pure."""
