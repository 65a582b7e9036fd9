module github.com/protolimit/ratelimit/examples

go 1.26.0

replace github.com/protolimit/ratelimit => ../
