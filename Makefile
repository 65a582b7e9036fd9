# Needs Go, git and a C compiler for the race detector. Everything else is
# installed into .bin/ on first use: what tools/ pins, and a redis-server.

BIN := $(CURDIR)/.bin
export PATH := $(BIN):$(PATH)
# A go.work around this tree must not change what is built here.
export GOWORK := off

# The library and what is apart from it: examples/, bench/.
MODULES := $(patsubst %/,%,$(dir $(wildcard go.mod */go.mod)))

# In CI no result comes from the cache of an earlier run.
TESTFLAGS ?= $(if $(CI),-count=1)
RACE := $(shell command -v $$(go env CC) >/dev/null && echo -race)
FUZZTIME ?= 20s

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(if $(filter redis,$(BACKEND)),redis-server) ## Run the quickstart; BACKEND=redis shares its limits between two servers
	@case "$(BACKEND)" in ""|memory|redis) ;; *) echo "BACKEND is $(BACKEND), want memory or redis"; exit 2 ;; esac
	@echo "Building the quickstart; the first time takes up to a minute."
	@cd examples && go run ./quickstart $(if $(filter redis,$(BACKEND)),-fleet)

.PHONY: test
test: redis-server ## Test every module, with the race detector
	@$(if $(RACE),,echo "No C compiler: testing without the race detector.")
	@echo "The first run compiles the dependencies; it takes a few minutes."
	@failed=0; for m in $(filter-out bench,$(MODULES)); do \
		echo "== $$m: go test $(RACE)"; \
		(cd $$m && go test $(RACE) $(TESTFLAGS) ./...) || failed=1; \
	done; \
	echo "== without the race detector, which allocates and is slow: allocations, long runs"; \
	go test $(TESTFLAGS) -run=Allocat . ./backend/... ./breaker ./interceptor ./protoc-gen-ratelimit || failed=1; \
	go test $(TESTFLAGS) -run='Contract/drift' ./backend/memory || failed=1; \
	echo "== bench: go vet, go test"; \
	(cd bench && go vet ./... && go test $(TESTFLAGS) ./...) || failed=1; \
	exit $$failed

.PHONY: generate
generate: $(BIN)/buf $(BIN)/protoc-gen-go ## Rebuild every generated file
	$(BIN)/buf generate
	go build -o $(BIN)/ ./protoc-gen-ratelimit
	cd examples/quickstart && buf generate
	go test ./protoc-gen-ratelimit -run='^TestGolden$$' -update

# The tree as it is, committed or not, less what is ignored, as one hash.
TREE := export GIT_INDEX_FILE=$(BIN)/index; rm -f $(BIN)/index; git add -A && git write-tree

.PHONY: check-generated
check-generated: $(BIN)/buf $(BIN)/protoc-gen-go ## Fail if generating changes any file
	@before=$$($(TREE)) && $(MAKE) --no-print-directory generate && after=$$($(TREE)) && \
	git diff --exit-code $$before $$after || { echo "The generated files are stale: make generate, and commit what changes."; exit 1; }

.PHONY: lint
lint: lint-proto lint-go ## Check Go, go.mod files and protos

.PHONY: lint-go
lint-go: $(BIN)/golangci-lint
	@failed=0; for m in $(MODULES); do \
		echo "== $$m: golangci-lint, go mod tidy -diff"; \
		(cd $$m && golangci-lint run ./...) || failed=1; \
		(cd $$m && go mod tidy -diff) || failed=1; \
	done; exit $$failed

.PHONY: lint-proto
lint-proto: $(BIN)/buf
	@echo "== buf lint, buf breaking"
	@$(BIN)/buf lint
	@tools/buf/breaking.sh

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## Format the Go code
	@set -e; for m in $(MODULES); do (cd $$m && golangci-lint fmt ./...); done

.PHONY: bench
bench: ## Compare with other libraries; takes minutes; BENCH='-run zipf' for a part
	@cd bench && go run . $(BENCH)

.PHONY: cover
cover: ## Print the library's test coverage, by function
	go test -coverpkg=./... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (20s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' * | while IFS=: read -r file func; do \
		echo "== $$file: $${func#func }"; \
		go test "./$$(dirname "$$file")" -run='^$$' -fuzz="^$${func#func }$$" -fuzztime=$(FUZZTIME) || exit 1; \
	done

# Tools. Each is rebuilt when its pin changes.

# The machine's own, or installed where that can be done; never a failure.
.PHONY: redis-server
redis-server:
	@tools/redis/install.sh

# Prebuilt from npm, in seconds; without Node, or where npm fails, from source.
$(BIN)/buf: tools/buf/package-lock.json tools/buf/go.mod
	@mkdir -p $(BIN)
	@echo "Installing buf."
	@(cd tools/buf && npm ci --silent && install -m 755 node_modules/@bufbuild/buf-*/bin/buf $@) || \
	{ echo "Not from npm. Building buf from source; this takes a minute or two."; GOBIN=$(BIN) go -C tools/buf install tool; }
	@touch $@

# protoc-gen-go-grpc comes along.
$(BIN)/protoc-gen-go: tools/protoc/go.mod
	@echo "Installing protoc-gen-go and protoc-gen-go-grpc."
	@GOBIN=$(BIN) go -C tools/protoc install tool
	@touch $@

$(BIN)/golangci-lint: tools/golangci-lint/go.mod
	@echo "Building golangci-lint; this takes a minute or two."
	@GOBIN=$(BIN) go -C tools/golangci-lint install tool
	@touch $@
