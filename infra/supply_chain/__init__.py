"""What the images are made of: their base images by digest, and the Debian packages in their bills of materials."""
