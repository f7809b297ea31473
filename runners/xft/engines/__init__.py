"""The programs that compute, each behind the same question: what does this layout of ranks come to?"""
