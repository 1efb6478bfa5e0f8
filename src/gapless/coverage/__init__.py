"""Pure: time to bucket, bitmaps of buckets, and the gaps between them."""
