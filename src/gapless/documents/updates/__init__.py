"""Update operators of documents, as MongoDB has them."""
