"""One file a layer: what objects that exist say, in the words of a stack file."""
