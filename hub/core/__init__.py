"""What every app needs: errors, ids, pagination, the queue by name. Knows no other app."""
