"""One file per source of outside facts; none of them decides anything."""
