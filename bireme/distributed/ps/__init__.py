"""Parameter servers: processes that keep parameters, and rows of tables that grow, for workers that train."""
