"""What an exception shows to be lacking from outside: read from its chain, link by link."""
