"""The order and the fields in which documents are found, as MongoDB has them."""
