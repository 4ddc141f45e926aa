"""Where the bytes lie: files under the hub's data, or an S3 bucket. One Protocol, one contract test suite."""
