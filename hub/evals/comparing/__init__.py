"""Evaluations of one environment compared, two to eight, and two versions of it: pairs, significance, pages."""
