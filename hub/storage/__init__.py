"""Content-addressed blobs on files or S3, presigned transfers."""
