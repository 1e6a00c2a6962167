"""Declaring operators: one declaration gives the public function, its arguments, its node and all of its uses."""
